// Package service implements podweb.v1: the calls of the page, and the one stream of each tab.
//
// A stream has no queue. It holds a position in each Log and Table of the board that its tab subscribes to, takes what is new
// since then, sends it, and waits until the tab has taken it. So a slow tab costs nothing, and delays neither other tabs nor the
// upstream. After a break, the tab gives its positions back as cursors.
//
// What changes something needs the flag that allows it and a confirmation, which is of one request: Confirmations.
//
// Package web registers its Service behind a door.Guard, which has checked the caller. It starts no goroutines of its own: each
// call and each stream runs in that of its request. It stores nothing, and asks the daemons with the rights of podctl's user.
//
// Lock order: Service.mu, tab.mu, then the locks of packages board and feed.
package service
