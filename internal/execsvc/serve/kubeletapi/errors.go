package kubeletapi

import "errors"

// ErrNoRuntime is returned until the container runtime has answered for the first time.
var ErrNoRuntime = errors.New("the container runtime doesn't answer yet")

// Refusals of paths and connections.
var (
	errPath            = errors.New("the path can be read in more than one way")
	errTooMany         = errors.New("too many connections")
	errTooManyOfCaller = errors.New("too many connections of this caller")
	errDisplaced       = errors.New("closed for a newer connection before any request on it was allowed")
	errStillAStranger  = errors.New("no request on it was allowed in time")
	errClosedByTheNode = errors.New("the connection is closed")
)
