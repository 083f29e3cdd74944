"""How tests reach a `regatta serve`: by its data directory, where its socket and its token are."""
import pathlib

# In the environment of every test but those of the defaults: empty, no file of site or user fills in its runs.
NO_DEFAULTS = {"REGATTA_CONFIG": "", "REGATTA_SITE_CONFIG": ""}


def server_of(data):
    """What --server and REGATTA_SERVER take."""
    return f"unix:{data}/controller.sock"


def bearer(data):
    """The headers that raw HTTP over TCP needs."""
    return {"Authorization": "Bearer " + (pathlib.Path(data) / "token").read_text().strip()}
