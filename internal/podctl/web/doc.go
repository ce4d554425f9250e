// Package web is `podctl web`: a page on a loopback address that shows what the daemons do, and, if the user allows it, runs
// commands and applies manifests.
//
// Run joins the packages below it:
//
//	door           decides which requests reach a handler; tickets, sessions, the file with the link
//	assets         the built page
//	service        podweb.v1 by Connect: calls, and one stream for each tab
//	execsocket     commands by WebSocket
//	board          the state that all tabs show; feed has its Logs and Tables, manifestplace finds the lines of findings
//	upstream       one stream of each kind to the daemons, for all tabs
//	plaintext      makes texts of others harmless
//
// The API is private between the page and the podctl of one build: proto/podweb/v1.
//
// Package podctl calls Run. It runs the HTTP server, the upstream, and a goroutine that reads Enter from the terminal; that
// one may outlive Run, as a read from a terminal can't be interrupted. It ends with its context, a hangup, or after the idle
// time. It serves no address but 127.0.0.1, and has no more rights at the daemons than podctl's user.
package web
