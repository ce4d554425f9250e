package observed

// Waiting is the reason, as users know it from kubectl, that a container which should run doesn't.
type Waiting struct {
	Reason, Message string
}
