// Package rotation is a queue that is fair between keys, such as identities or IP addresses: however many waiters one
// key has, another key's waiter is served after at most one of each.
//
// The service of podconfigd and grpcserver use it, each under its own mutex. It runs no goroutine, takes no lock, and
// doesn't bound the number of waiters: its users do.
package rotation
