// Package syncloop is podexecd's sync loop, one select: it receives the events of podconfigd's stream, of the pleg and
// of probes, and calls the method of its SyncHandler for each.
//
// Run is one goroutine, and the only caller of the handler. So handlers need no locks against each other; they must
// not block. An event of the stream is applied when the handler has returned. No event is handled before the first
// relist of the runtime: the running pods must be known before pods are added. After that relist, Config.Begin is
// called first.
//
// There is no tick of one second as in the kubelet's loop: each pod worker has its own timer.
package syncloop
