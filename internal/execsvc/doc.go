// Package execsvc is the heart of podexecd: it makes true what podconfigd streams.
//
// The Agent joins the rooms: the sync loop (syncloop) tells it what is desired and what happened; it keeps the desired pods
// (podset) and has a worker for each (worker); the workers call back for each step, which it takes with the runtime, the
// volumes (volume) and the status (status). Data flows from the stream and the pleg through the loop to the workers, and from
// there to the runtime; nobody calls the loop.
//
// Two locks are held while others are taken, and never one of them while the other is: the admission's, before those of the workers, the store
// and what the node is known by; and the one of showing, before those of the pods, the workers, the statuses, the board and the store.
package execsvc
