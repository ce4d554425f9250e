package record

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Version is the version of the format. A file of another version counts as damaged.
const Version = 1

// Phase says what is known of a thing that a driver makes: the staged volume, or one publication.
type Phase string

// The phases.
const (
	// None: nothing exists. No call was made, the driver confirmed that the only call did nothing, or it confirmed
	// the removal.
	None Phase = ""
	// Unsure: a call was made, and no answer says that the thing exists, or that it doesn't.
	Unsure Phase = "unsure"
	// Done: the driver confirmed it.
	Done Phase = "done"
	// Undoing: the driver must confirm the removal before anything else happens.
	Undoing Phase = "undoing"
)

// Use says whether a volume is in the node's volumesInUse.
type Use string

// The values of Use.
const (
	// NotInUse: it isn't. The API server confirmed that, or it was never added.
	NotInUse Use = ""
	// AddingUse: it is being added.
	AddingUse Use = "adding"
	// InUse: the API server confirmed it.
	InUse Use = "in-use"
	// DroppingUse: it is being removed.
	DroppingUse Use = "dropping"
)

// Key identifies a volume on the node.
type Key struct {
	// Driver is the name of a CSI driver, or of an in-tree plugin.
	Driver string `json:"driver"`
	// Handle is the volume's handle within the driver.
	Handle string `json:"handle"`
}

// fileName returns the name of the key's file.
func (k Key) fileName() string {
	sum := sha256.Sum256([]byte(k.Driver + "\x00" + k.Handle))
	return hex.EncodeToString(sum[:]) + suffix
}

// Call is a call that makes something, and what is known of its effect.
type Call struct {
	Phase Phase `json:"phase,omitempty"`
	// Pending is set from before a call until its answer: the driver may still execute it. The call is repeated until
	// there is an answer. A volume has one pending call at the most. In phase Done, it is a publication's repeated call,
	// which has a field of its own in the file.
	Pending bool `json:"pending,omitempty"`
	// Args are the backend's arguments, as it gave them. A repeated call has the same ones. They have no secrets.
	Args string `json:"args,omitempty"`
	// Reusable is set in phase Undoing if nothing but the lack of pods has the volume undone: it was confirmed, or may be confirmed by the
	// same call. If the driver refuses to undo it, it may be made again with the same arguments. An older version doesn't keep it.
	Reusable bool `json:"reusable,omitempty"`
}

// Target identifies a publication: a directory of a pod.
type Target struct {
	UID types.UID `json:"uid"`
	// Plugin is the plugin's name, "kubernetes.io/csi". Name is the volume's: the name of its PersistentVolume, or of
	// the pod's volume.
	Plugin string `json:"plugin"`
	Name   string `json:"name"`
}

// Publication is a volume in a pod's directory.
type Publication struct {
	Target
	Call
	// Volumes are the names of the pod's volumes that refer to it, sorted.
	Volumes []string `json:"volumes,omitempty"`
	// Dir is the volume's directory in the pod's directory. Of a device it is the path of the link to it.
	Dir string `json:"dir"`
	// Device is set if the volume is a block device for the pod, not a file system.
	Device bool `json:"device,omitempty"`
	// ReadOnly reports whether containers may only read it.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Exclusive is set if the pod doesn't share the volume with another.
	Exclusive bool `json:"exclusive,omitempty"`
	// Group is the group that the PersistentVolume gives to the processes of the pod. Nil: none.
	Group *int64 `json:"group,omitempty"`
	// FSGroup is the group to which the files of the volume are changed for the pod, and KeepsGroup is set if they aren't, because other
	// pods had the volume before. Until the publication is done, the change is repeated. Nil: none, or the backend decides it.
	FSGroup    *int64 `json:"fsGroup,omitempty"`
	KeepsGroup bool   `json:"keepsGroup,omitempty"`
	// Pod is the pod's namespace and name, for messages: "default/web". Empty: an older version wrote the record.
	Pod string `json:"pod,omitempty"`
}

// Volume is the record of one driver's volume.
type Volume struct {
	Version int `json:"version"`
	// Agent is the ID of the agent that wrote the record, Boot the kernel's boot ID at that time.
	Agent string `json:"agent"`
	Boot  string `json:"boot"`
	Key
	Traits
	// Use says whether it is in volumesInUse, under UniqueName.
	Use Use `json:"use,omitempty"`
	// Attached is set if the volume's attachment is known; Context is what the attachment gave for the driver's calls.
	// Both stay while anything may be staged or published.
	Attached bool              `json:"attached,omitempty"`
	Context  map[string]string `json:"context,omitempty"`

	Stage Call `json:"stage,omitzero"`
	// Expand is an expansion: None, or pending. ExpandTarget is the publication that it is made for.
	Expand       Call          `json:"expand,omitzero"`
	ExpandTarget Target        `json:"expandTarget,omitzero"`
	Publications []Publication `json:"publications,omitempty"`
	// OwedGroup is the group of a change of the volume's files that was begun, and that no publication has completed; also if the pod is gone.
	// Nil: there is none.
	OwedGroup *int64 `json:"owedGroup,omitempty"`
}

// Traits are what the volume needs besides publications. They don't change while anything may be staged or published.
type Traits struct {
	// Backend is the name of the backend that makes the calls.
	Backend string `json:"backend"`
	// Stages is set if the volume is staged before it is published.
	Stages bool `json:"stages,omitempty"`
	// Attaches is set if the volume must be attached first.
	Attaches bool `json:"attaches,omitempty"`
	// UniqueName is the volume's name in volumesInUse. Empty: it isn't listed there.
	UniqueName string `json:"uniqueName,omitempty"`
	// SELinuxContext is the context with which the file system is mounted; empty: none. The arguments of the calls have it too.
	SELinuxContext string `json:"seLinuxContext,omitempty"`
}

// Clone returns a deep copy.
func (v *Volume) Clone() Volume {
	c := *v
	c.Context = maps.Clone(v.Context)
	c.Publications = slices.Clone(v.Publications)
	for i := range c.Publications {
		c.Publications[i].Volumes = slices.Clone(c.Publications[i].Volumes)
	}
	return c
}

// Publication returns the publication of that target, or nil.
func (v *Volume) Publication(t Target) *Publication {
	for i := range v.Publications {
		if v.Publications[i].Target == t {
			return &v.Publications[i]
		}
	}
	return nil
}

// Mounted reports whether anything of the volume may exist on the node.
func (v *Volume) Mounted() bool {
	return v.Stage.Phase != None || v.Published()
}

// Published reports whether any publication may exist.
func (v *Volume) Published() bool {
	return slices.ContainsFunc(v.Publications, func(p Publication) bool { return p.Phase != None })
}

// normalize makes empty maps and lists nil, as they are after reading.
func (v *Volume) normalize() {
	if len(v.Context) == 0 {
		v.Context = nil
	}
	if len(v.Publications) == 0 {
		v.Publications = nil
	}
	for i := range v.Publications {
		if p := &v.Publications[i]; len(p.Volumes) == 0 {
			p.Volumes = nil
		}
	}
}
