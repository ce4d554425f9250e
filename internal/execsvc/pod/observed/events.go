package observed

import "errors"

// ErrNoEvents ends a watch of a container runtime that has no events.
var ErrNoEvents = errors.New("the container runtime has no events")
