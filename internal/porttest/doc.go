// Package porttest keeps TCP ports for tests: for servers that stop and start again at one address, for daemons that are told where to
// listen, and for clients that are to find nobody. A port that a test has listened on and closed may go to anybody meanwhile, as the end of
// a connection too. It runs no goroutines.
package porttest
