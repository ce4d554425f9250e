package kubeletdir

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Default is the default of --kubelet-dir: the kubelet's --root-dir.
const Default = "/var/lib/kubelet"

// Usage is the help of --kubelet-dir.
const Usage = "`directory` of the pods' volumes, and of the sockets of CSI drivers and plugins; their DaemonSets mount it by this path"

// The directories in --kubelet-dir, which the kubelet has in its --root-dir.
const (
	podsName         = "pods"
	pluginsName      = "plugins"
	registryName     = "plugins_registry"
	devicePluginName = "device-plugins"
	podResourcesName = "pod-resources"
)

// names are the directories that Open makes.
var names = []string{podsName, pluginsName, registryName, devicePluginName, podResourcesName}

// dirMode is the kubelet's mode of them: other users can't look up the paths in them.
const dirMode = 0o750

// PodsDir returns the directory of the pods' directories, and Plugins, Registry, DevicePlugins and PodResources the other ones.
func PodsDir(dir string) string { return filepath.Join(dir, podsName) }

// Plugins returns the directory of the plugins' sockets and of staged volumes.
func Plugins(dir string) string { return filepath.Join(dir, pluginsName) }

// Registry returns the directory of the sockets on which plugins register themselves.
func Registry(dir string) string { return filepath.Join(dir, registryName) }

// DevicePlugins returns the directory of the device plugins' sockets.
func DevicePlugins(dir string) string { return filepath.Join(dir, devicePluginName) }

// PodResources returns the directory of the socket of the PodResources API.
func PodResources(dir string) string { return filepath.Join(dir, podResourcesName) }

// maxSocketPath is the maximum length of a Unix socket's path, in bytes: sockaddr_un has 108 with the final zero.
const maxSocketPath = 107

// CheckPath returns an error if the path can't be a --kubelet-dir: it isn't absolute and in its shortest form, as drivers
// compare paths as strings, or the kernel couldn't bind the sockets in it.
func CheckPath(dir string) error {
	switch {
	case dir == "":
		return errors.New("--kubelet-dir must not be empty")
	case !filepath.IsAbs(dir) || filepath.Clean(dir) != dir:
		return fmt.Errorf("--kubelet-dir %s: want an absolute path without . and .., such as %s", dir, filepath.Clean("/"+dir))
	case dir == "/":
		return errors.New("--kubelet-dir / is the root directory: want a directory of its own, such as " + Default)
	}
	for _, socket := range []string{
		filepath.Join(DevicePlugins(dir), "kubelet.sock"), filepath.Join(PodResources(dir), "kubelet.sock"), filepath.Join(Registry(dir), "x"),
	} {
		if over := len(socket) - maxSocketPath; over > 0 {
			return fmt.Errorf("--kubelet-dir %s is %d bytes too long: the socket %s has a path of more than %d bytes, which the kernel can't bind",
				dir, over, socket, maxSocketPath)
		}
	}
	return nil
}
