package conformance

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podstream/podstream/test/cluster/nodes"
)

// sidecars are the programs of the images that a CSI driver's pods have, by the images' names in the manifests of Kubernetes v1.37.
var sidecars = map[string]string{
	"sig-storage/csi-attacher:v4.12.0":              "csi-attacher",
	"sig-storage/csi-provisioner:v6.3.0":            "csi-provisioner",
	"sig-storage/csi-resizer:v2.2.0":                "csi-resizer",
	"sig-storage/csi-node-driver-registrar:v2.17.0": "csi-node-driver-registrar",
	"sig-storage/hostpathplugin:v1.17.1":            "hostpathplugin",
}

// mockShellImage is the shell in the pod of the mock driver.
const mockShellImage = "e2e-test-images/busybox:1.36.1-1"

// storageImages returns the images of sidecars. Nothing here makes the address of the service kubernetes, so each
// program of a sidecar is told the API server's own address.
func storageImages(cluster *nodes.Cluster) (map[string]contents, error) {
	server, err := url.Parse(cluster.Plane.URL)
	if err != nil {
		return nil, err
	}
	images := map[string]contents{mockShellImage: {config: v1.Config{Cmd: []string{"sh"}}}}
	for image, name := range sidecars {
		file, err := program(filepath.Join(tools, name), 0o755)
		if err != nil {
			return nil, err
		}
		script := fmt.Sprintf(`export KUBERNETES_SERVICE_HOST=%s KUBERNETES_SERVICE_PORT=%s; exec /%s "$@"`, cluster.IP, server.Port(), name)
		images[image] = contents{v1.Config{Entrypoint: []string{"/bin/sh", "-c", script, name}}, files{name: file}}
	}
	return images, nil
}

// nsenter is a script in place of the command, for specs that run a shell on the node: nsenter --mount=NAMESPACE -- sh -c COMMAND. They enter
// the mount namespace of process 1, which a machine inside a container may not allow. This enters that of the test, in which the
// runtime and the node's daemons run. The shell has a path, as busybox would otherwise run its own. Some specs look below /var/lib/kubelet,
// whatever directory the node has: it is replaced by kubeletDir, as they would find nothing there, and take that for a success. Others run crictl.
func nsenter(endpoint, kubeletDir string) string {
	return fmt.Sprintf(`#!/bin/sh
[ "$3 $4" = "sh -c" ] || { echo "nsenter: $* is not nsenter --mount=NAMESPACE -- sh -c COMMAND" >&2; exit 2; }
export PATH=%s:$PATH CONTAINER_RUNTIME_ENDPOINT=%s
command=$(printf '%%s\n' "$5" | sed 's#/var/lib/kubelet/#%s/#g')
exec /bin/busybox nsenter --mount=/rootfs/proc/%d/ns/mnt /bin/sh -c "$command"
`, tools, endpoint, kubeletDir, os.Getpid())
}
