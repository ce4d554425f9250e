// Package wire has the requests to the program pullchecks, and its answers. It is built with two versions of the
// Kubernetes libraries, and so imports none.
package wire

// The operations of a Request.
const (
	// Start opens the records in Dir, under the policy.
	Start = "start"
	// Intend records that Image is about to be pulled; Pulled and Failed end the latest such pull.
	Intend = "intend"
	Pulled = "pulled"
	Failed = "failed"
	// Check asks whether a pod with these logins may use the image.
	Check = "check"
	// List is a listing of all images.
	List = "list"
)

// Request is one operation.
type Request struct {
	Op          string
	Dir, Policy string   `json:",omitempty"`
	Allowlist   []string `json:",omitempty"`
	// Image is the image in a pod's spec, ID its ID in the runtime, and Names the runtime's names of it.
	Image, ID string   `json:",omitempty"`
	Names     []string `json:",omitempty"`
	// Logins are the pod's; for Pulled, the one that the registry accepted.
	Logins []Login `json:",omitempty"`
	Images []Image `json:",omitempty"`
}

// Login is the origin of a login: a pull secret, a service account, or neither.
type Login struct{ Secret, Account *Object }

// Object has the coordinates of an API object; Hash is that of a login in a pull secret.
type Object struct {
	UID, Namespace, Name string
	Hash                 string `json:",omitempty"`
}

// Image is an image of the runtime.
type Image struct {
	ID    string
	Names []string
}

// Answer is the answer to a Request.
type Answer struct {
	// MustPull is that to Check.
	MustPull bool
	Error    string `json:",omitempty"`
}
