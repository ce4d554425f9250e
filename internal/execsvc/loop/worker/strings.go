package worker

// String returns the state in lower case, for logs.
func (s State) String() string {
	switch s {
	case Waiting:
		return "waiting"
	case Syncing:
		return "syncing"
	case Terminating:
		return "terminating"
	case Terminated:
		return "terminated"
	case Finished:
		return "finished"
	default:
		return "unknown"
	}
}

func (s step) String() string {
	switch s {
	case stepSync:
		return "sync"
	case stepTerminate:
		return "termination"
	case stepCleanUp:
		return "clean-up"
	case stepPurge:
		return "removal"
	default:
		return "nothing"
	}
}
