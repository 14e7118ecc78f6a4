"""The server that http tasks ask: answers every request with 200 and two bytes, on a free port of 127.0.0.1, which it prints."""
import asyncio

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"


class Answer(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.seen = transport, b""

    def data_received(self, data):
        self.seen += data
        # Requests without a body end with an empty line; several may come at once.
        *whole, self.seen = self.seen.split(b"\r\n\r\n")
        self.transport.write(ANSWER * len(whole))


async def main():
    server = await asyncio.get_running_loop().create_server(Answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
