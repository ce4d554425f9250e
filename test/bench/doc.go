// Package bench measures what users wait for, with the real daemons, each figure beside the least that it could be in the same
// run. `make bench` prints it.
package bench
