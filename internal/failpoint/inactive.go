//go:build !failpoints

package failpoint

// Active reports whether the fault is switched on. In this build none ever is.
func Active(Name) bool { return false }

// Hold returns when the fault isn't switched on any more. In this build none ever is.
func Hold(Name) {}
