"""The browser page: static files only, served by the gateway. A package so that they ship in the wheel."""
