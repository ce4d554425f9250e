package observed

// Waiting is the reason, as kubectl shows it, why a container that should run doesn't.
type Waiting struct {
	Reason, Message string
}
