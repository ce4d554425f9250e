package inside

// Report is what a process finds.
type Report struct {
	Args       []string          `json:"args"`
	Env        map[string]string `json:"env"`
	WorkingDir string            `json:"workingDir"`
	// Hostname is the kernel's.
	Hostname string `json:"hostname"`

	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups"`
	// UIDMap is how uids map to the node's: "0 0 4294967295" without a user namespace.
	UIDMap string `json:"uidMap"`

	// Effective and Bounding are the capabilities, by name, sorted: "CHOWN".
	Effective []string `json:"effective"`
	Bounding  []string `json:"bounding"`
	// NoNewPrivs is the flag, Seccomp the mode: 0 none, 2 a filter.
	NoNewPrivs bool `json:"noNewPrivs"`
	Seccomp    int  `json:"seccomp"`
	// AppArmor is the profile, SELinux the label; empty where the kernel has none.
	AppArmor    string `json:"appArmor,omitempty"`
	SELinux     string `json:"seLinux,omitempty"`
	OOMScoreAdj int    `json:"oomScoreAdj"`

	// Namespaces are the identities of the process's, by kind: "net".
	Namespaces map[string]string `json:"namespaces"`
	// Processes are those that can be seen: pid and command.
	Processes map[int]string `json:"processes"`
	// Interfaces are the network's, by name, with their addresses.
	Interfaces map[string][]string `json:"interfaces"`

	Mounts []Mount `json:"mounts"`
	// Cgroup is the process's own, by controller ("memory"; "" for v2), and Limits what the kernel's files say there,
	// by file name.
	Cgroup map[string]string `json:"cgroup"`
	Limits map[string]string `json:"limits"`
	// Files are those that were asked for, and what is beneath, by path.
	Files map[string]File `json:"files"`
	// Errors says what couldn't be read.
	Errors []string `json:"errors,omitempty"`
}

// Mount is a line of the mount table.
type Mount struct {
	Point  string `json:"point"`
	Root   string `json:"root"`
	Type   string `json:"type"`
	Source string `json:"source"`
	// Options are those of the mount, Super those of its file system.
	Options []string `json:"options"`
	Super   []string `json:"super"`
	// Propagation is "shared", "master", "shared,master", "unbindable" or "private".
	Propagation string `json:"propagation"`
}

// File is a file as it is found.
type File struct {
	// Kind is "file", "dir", "link", "socket", "pipe", "device" or "missing".
	Kind string `json:"kind"`
	// Mode is in octal, with the set-id and sticky bits: "0644".
	Mode string `json:"mode,omitempty"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Size int64  `json:"size"`
	// Link is where a link points. Content is that of a file, or what a link leads to, up to 64 KiB.
	Link    string `json:"link,omitempty"`
	Content string `json:"content,omitempty"`
	// Writable tells, of a directory, whether a file can be made there, and of a file whether it can be opened for
	// writing.
	Writable bool `json:"writable"`
}

// Mount is the mount at that path, or nil. Of several it is the last one: the one that is seen.
func (r *Report) Mount(point string) *Mount {
	for i := len(r.Mounts) - 1; i >= 0; i-- {
		if r.Mounts[i].Point == point {
			return &r.Mounts[i]
		}
	}
	return nil
}
