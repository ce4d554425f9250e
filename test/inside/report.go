package inside

// Report is the environment of a process.
type Report struct {
	Args       []string          `json:"args"`
	Env        map[string]string `json:"env"`
	WorkingDir string            `json:"workingDir"`
	// Hostname is the kernel's hostname.
	Hostname string `json:"hostname"`

	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups"`
	// UIDMap is how UIDs map to the node's UIDs: "0 0 4294967295" without a user namespace.
	UIDMap string `json:"uidMap"`

	// Effective and Bounding are the capabilities, by name, sorted: "CHOWN".
	Effective []string `json:"effective"`
	Bounding  []string `json:"bounding"`
	// NoNewPrivs is the flag. Seccomp is the mode: 0 none, 2 a filter.
	NoNewPrivs bool `json:"noNewPrivs"`
	Seccomp    int  `json:"seccomp"`
	// AppArmor is the profile, and SELinux the label; empty if the kernel has none.
	AppArmor    string `json:"appArmor,omitempty"`
	SELinux     string `json:"seLinux,omitempty"`
	OOMScoreAdj int    `json:"oomScoreAdj"`
	// Processors is the number of processors that the process may run on.
	Processors int `json:"processors"`

	// Namespaces are the IDs of the process's namespaces, by kind: "net".
	Namespaces map[string]string `json:"namespaces"`
	// Processes are the visible processes: PID and command.
	Processes map[int]string `json:"processes"`
	// Interfaces are the network interfaces, by name, with their addresses.
	Interfaces map[string][]string `json:"interfaces"`

	Mounts []Mount `json:"mounts"`
	// Cgroup is the process's cgroup, by controller ("memory"; "" for v2). Limits are the values of the
	// kernel's files there, by file name.
	Cgroup map[string]string `json:"cgroup"`
	Limits map[string]string `json:"limits"`
	// Files are the requested files and all files below them, by path.
	Files map[string]File `json:"files"`
	// Errors are the reasons for missing values.
	Errors []string `json:"errors,omitempty"`
}

// Mount is a line of the mount table.
type Mount struct {
	Point  string `json:"point"`
	Root   string `json:"root"`
	Type   string `json:"type"`
	Source string `json:"source"`
	// Options are the mount's options, and Super the options of its file system.
	Options []string `json:"options"`
	Super   []string `json:"super"`
	// Propagation is "shared", "master", "shared,master", "unbindable" or "private".
	Propagation string `json:"propagation"`
}

// File is the observed state of a file.
type File struct {
	// Kind is "file", "dir", "link", "socket", "pipe", "device" or "missing".
	Kind string `json:"kind"`
	// Mode is in octal, with the set-id and sticky bits: "0644".
	Mode string `json:"mode,omitempty"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Size int64  `json:"size"`
	// Link is the target of a link. Content is the content of a file, or of a link's target, up to 64 KiB.
	Link    string `json:"link,omitempty"`
	Content string `json:"content,omitempty"`
	// Writable reports whether a file can be created in the directory, or whether the file can be opened for
	// writing.
	Writable bool `json:"writable"`
}

// Mount returns the mount at that path, or nil. Of several it returns the last one, which hides the others.
func (r *Report) Mount(point string) *Mount {
	for i := len(r.Mounts) - 1; i >= 0; i-- {
		if r.Mounts[i].Point == point {
			return &r.Mounts[i]
		}
	}
	return nil
}
