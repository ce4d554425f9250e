package foreign

import (
	"path/filepath"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/tree"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
)

// Job is what a helper does. Exactly one field is set.
type Job struct {
	// Group changes a volume to a group.
	Group *ownership.Request `json:"group,omitempty"`
	// SubPath binds a subPath; CleanSubPaths unmounts and removes what is at and below a pod's volume-subpaths.
	SubPath       *SubPath `json:"subPath,omitempty"`
	CleanSubPaths string   `json:"cleanSubPaths,omitempty"`
	// Look stats the path of a file, which may be a mount point, and its file system.
	Look string `json:"look,omitempty"`
	// Mount and Unmount mount and unmount.
	Mount   *Mount   `json:"mount,omitempty"`
	Unmount *Unmount `json:"unmount,omitempty"`
	// MapDevice and UnmapDevice publish and unpublish a block device.
	MapDevice   *MapDevice   `json:"mapDevice,omitempty"`
	UnmapDevice *UnmapDevice `json:"unmapDevice,omitempty"`
	// Initiator works on iSCSI sessions and their disks.
	Initiator *initiator.Job `json:"initiator,omitempty"`
	// The others work on the directories of claims. Export and Import need a stream: Helpers.Stream.
	Survey *tree.Survey `json:"survey,omitempty"`
	Remove *tree.Remove `json:"remove,omitempty"`
	Sweep  *tree.Sweep  `json:"sweep,omitempty"`
	Export *tree.Export `json:"export,omitempty"`
	Import *tree.Import `json:"import,omitempty"`
}

// SubPath is a request of package subpath.
type SubPath struct {
	Root     string `json:"root"`
	SubPath  string `json:"subPath"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Mount is a mount. The target must be an empty directory, or already have this mount. A bind mount that is there gets the options again.
type Mount struct {
	// Source is what mount(8) gets: a device, "server:/path", or the directory of a bind mount.
	Source string `json:"source"`
	// Target is the mount point. The path is trusted.
	Target string `json:"target"`
	// Type is the file system's type; empty for a bind mount.
	Type string `json:"type,omitempty"`
	// Options are those of mount(8).
	Options []string `json:"options,omitempty"`
	// Format has a device without any content formatted first.
	Format bool `json:"format,omitempty"`
	// Disk is set instead of Source and Format if a disk of iSCSI sessions is mounted.
	Disk *initiator.Disk `json:"disk,omitempty"`
}

// Unmount unmounts everything that is mounted at the target, if anything is. The mount table says that.
type Unmount struct {
	Target string `json:"target"`
	// Force has the kernel give up the requests to a server that doesn't answer. Files that aren't written yet are lost.
	Force bool `json:"force,omitempty"`
}

// MapDevice holds a block device with a tag, and links it: package blockdevice says why.
type MapDevice struct {
	// Path leads to the device; links in it are followed.
	Path  string              `json:"path"`
	Tag   string              `json:"tag"`
	Links []blockdevice.Place `json:"links"`
}

// UnmapDevice undoes MapDevice.
type UnmapDevice struct {
	Tag   string              `json:"tag"`
	Links []blockdevice.Place `json:"links"`
}

// target returns where the job mounts, or the tag with which it holds a block device; empty: it does neither. Until its helper has ended,
// what undoes it isn't complete.
func (j *Job) target() string {
	switch {
	case j.Mount != nil:
		return filepath.Clean(j.Mount.Target)
	case j.SubPath != nil:
		return filepath.Clean(j.SubPath.Target)
	case j.MapDevice != nil:
		return j.MapDevice.Tag
	case j.Initiator != nil && j.Initiator.Map != nil:
		return j.Initiator.Map.Tag
	default:
		return ""
	}
}

// undoes returns the target of the jobs that the job undoes; empty: it undoes none.
func (j *Job) undoes() string {
	switch {
	case j.Unmount != nil:
		return filepath.Clean(j.Unmount.Target)
	case j.UnmapDevice != nil:
		return j.UnmapDevice.Tag
	case j.Initiator != nil && j.Initiator.Unmap != nil:
		return j.Initiator.Unmap.Tag
	default:
		return ""
	}
}

// kind returns the name of the job.
func (j *Job) kind() string {
	switch {
	case j.Group != nil:
		return "group"
	case j.SubPath != nil:
		return subPathKind
	case j.CleanSubPaths != "":
		return "clean-subpaths"
	case j.Look != "":
		return "look"
	case j.Mount != nil:
		return mountKind
	case j.Unmount != nil:
		return "unmount"
	case j.MapDevice != nil:
		return mapKind
	case j.UnmapDevice != nil:
		return "unmap-device"
	case j.Initiator != nil:
		return j.Initiator.Kind()
	case j.Survey != nil:
		return "survey"
	case j.Remove != nil:
		return removeKind
	case j.Sweep != nil:
		return sweepKind
	case j.Export != nil:
		return exportKind
	case j.Import != nil:
		return importKind
	default:
		return "none"
	}
}

// The kinds of jobs that are compared. Those of an export and an import have a stream.
const (
	exportKind, importKind, removeKind, sweepKind = "export", "import", "remove", "sweep"
	mountKind, subPathKind                        = "mount", "subpath"
	mapKind                                       = "map-device"
)

// hasTarget are the kinds of jobs that mount, or hold a device.
var hasTarget = map[string]bool{mountKind: true, subPathKind: true, mapKind: true, initiator.MapKind: true}

// changesTree are the kinds of jobs that change directories of claims.
var changesTree = map[string]bool{importKind: true, removeKind: true, sweepKind: true}

// onClaims reports whether the job works on the directories of claims.
func (j *Job) onClaims() bool { return j.Survey != nil || j.Export != nil || changesTree[j.kind()] }

// Kind is the kind of a file.
type Kind string

// The kinds of files.
const (
	Directory   Kind = "directory"
	BlockDevice Kind = "block device"
	OtherFile   Kind = "file"
)

// Answer is the result of a job.
type Answer struct {
	// Path is where a subPath is bound.
	Path string `json:"path,omitempty"`
	// Kind and Usage are those of Look. Number is the "8:0" of a BlockDevice.
	Kind   Kind   `json:"kind,omitempty"`
	Number string `json:"number,omitempty"`
	Usage  Usage  `json:"usage,omitzero"`
	// Initiator is that of an Initiator.
	Initiator initiator.Answer `json:"initiator,omitzero"`
	// Surveyed is that of Survey, and Moved that of Export and Import.
	Surveyed tree.Surveyed `json:"surveyed,omitzero"`
	Moved    tree.Moved    `json:"moved,omitzero"`
}

// Usage is the usage of a file system, in bytes and inodes.
type Usage struct {
	Capacity  int64 `json:"capacity"`
	Available int64 `json:"available"`
	// Free is with what only root may use.
	Free       int64 `json:"free"`
	Inodes     int64 `json:"inodes"`
	InodesFree int64 `json:"inodesFree"`
}

// reply is what the helper writes.
type reply struct {
	Answer
	Failure *failure `json:"failure,omitempty"`
}

// failure is an error on its way from the helper.
type failure struct {
	Text string `json:"text"`
	// Errno is the system call's, or 0.
	Errno int `json:"errno,omitempty"`
	// Outside is set for subpath.ErrOutside.
	Outside bool `json:"outside,omitempty"`
	// Unchanged is set if the job certainly has done nothing.
	Unchanged bool `json:"unchanged,omitempty"`
	// Reason is a package tree's.
	Reason Reason `json:"reason,omitempty"`
}

// Reason is why a job on a claim's directory can't be done, where the caller must know.
type Reason string

// The reasons.
const (
	Missing  Reason = "missing"
	Mounted  Reason = "mounted"
	NotEmpty Reason = "not-empty"
	// Unsynced is that of an import of which nothing may be removed: the disk didn't confirm which content is in place.
	Unsynced Reason = "unsynced"
	// Refused is that of an archive that isn't imported.
	Refused Reason = "refused"
)

// The bounds of what is exchanged.
const (
	maxJob    = 256 << 10
	maxReply  = 256 << 10
	maxText   = 4 << 10
	maxVolume = 256
)
