// Package execsocket runs commands in containers for the page of `podctl web`: an Exec of podexec.v1 behind a WebSocket.
//
// WebSockets have no same-origin policy and no headers of the page's choice. The door checks the origin before the handler runs;
// the first message has the session's token and the user's confirmation of exactly this command. Sessions are bounded in number,
// messages in size, and each read and write in time.
//
// Package web registers the Handler. A connection has two goroutines, which the handler waits for: one reads the page's
// messages, and one sends pings.
package execsocket
