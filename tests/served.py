"""How tests reach a `regatta serve`: by its data directory, where its socket and its token are."""
import pathlib


def server_of(data):
    """What --server and REGATTA_SERVER take."""
    return f"unix:{data}/controller.sock"


def bearer(data):
    """The headers that raw HTTP over TCP needs."""
    return {"Authorization": "Bearer " + (pathlib.Path(data) / "token").read_text().strip()}
