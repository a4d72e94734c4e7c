# SPDX-License-Identifier: Apache-2.0
"""Servers behind TLS: believed by their certificate, or not at all."""
import ssl

import pytest
from pysdk import both

import glovebox
from server import Server, WARM, certificate, needs_root  # noqa: F401

pytestmark = needs_root

TOKEN = "a-token-of-sixteen-and-more"


@pytest.fixture(scope="module")
def server(certificate, tmp_path_factory):  # noqa: F811
    cert, key = certificate
    with Server(tmp_path_factory.mktemp("serve"), tls_cert=cert, tls_key=key, ca=cert, tokens={"one": TOKEN}, **WARM) as running:
        running.cert = str(cert)
        running.url = f"https://localhost:{running.port}"
        yield running


@both
async def test_all_of_it_by_tls(server):
    for verify in (server.cert, ssl.create_default_context(cafile=server.cert), False):
        async with glovebox.AsyncClient(server.url, TOKEN, verify=verify) as client:
            async with glovebox.AsyncBox(client=client) as box:
                assert (await box.run("1 + 1")).text == "2"
                await box.files.write("f", b"x" * 1_000_000)
                assert await box.files.read("f") == b"x" * 1_000_000
                assert [event.kind async for event in box.stream("1")][-1] == "end"
                async with box.terminal() as terminal:
                    await terminal.write("echo $((6 * 7))\n")
                    await terminal.read_until("42\r\n", 20)


@both(more=["async"])
async def test_who_is_not_trusted(server, tmp_path):
    with pytest.raises(glovebox.ServerUnreachable, match="can be trusted.*verify="):
        async with glovebox.AsyncBox(url=server.url, token=TOKEN):
            pass
    with pytest.raises(glovebox.InvalidRequest, match="no certificates that can be read"):
        async with glovebox.AsyncBox(url=server.url, token=TOKEN, verify=str(tmp_path / "nothing")):
            pass


@both
async def test_plain_and_tls_are_not_mixed_up(server):
    with pytest.raises((glovebox.ProtocolError, glovebox.ConnectionLost, glovebox.ApiError)):
        async with glovebox.AsyncClient(server.url.replace("https", "http"), TOKEN, timeout=0.3) as client:
            await client.health()


def test_a_box_that_is_forgotten_ends_with_its_program(server):
    from pysdk import python

    python("import glovebox, sys; glovebox.Box(url=sys.argv[1], token=sys.argv[2], verify=sys.argv[3]).open()", server.url, TOKEN, server.cert)
    with glovebox.Client(server.url, TOKEN, verify=server.cert) as client:
        assert client.boxes.list() == []
