package observed

import "errors"

// ErrNoEvents is what watching a container runtime ends with that tells of no events.
var ErrNoEvents = errors.New("the container runtime has no events")
