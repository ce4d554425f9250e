// Package kubeletdir owns the layout of --kubelet-dir: the directories that CSI, DRA and device plugin DaemonSets mount from
// the node, and in which they get target paths. These paths are an API: they begin with /var/lib/kubelet unless podexecd and
// the DaemonSets are configured otherwise.
//
// Open makes the directories, checks that no other user can write to them, and locks them for one podexecd. It refuses
// directories of pods that are another agent's, as podexecd removes the directories of pods that it doesn't run, and persistent
// volumes that another agent set up, as podexecd has no record of them. Pods has the place of each pod's directory: a pod that an
// earlier version of podexecd started has it beneath --root-dir until it ends.
//
// podexecd calls Open once, at its start, and CheckVolumes if it may adopt a kubelet's pods. It gives Pods to each package that reads or
// writes a pod's directory. podctl doctor, podctl migrate and the launcher use the paths only. The package has no goroutines. It never
// removes a file, and of directories only an empty <root-dir>/pods.
package kubeletdir
