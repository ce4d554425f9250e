package hosts

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	utilio "k8s.io/utils/io"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/openfile"
)

const (
	// containerPath is the file's path in a container, nodePath the node's own file.
	containerPath = "/etc/hosts"
	nodePath      = "/etc/hosts"
	// name is the file's name in the pod's directory.
	name = "etc-hosts"
	// maxNodeFile is the size above which the node's file is rejected.
	maxNodeFile = 10 << 20
)

// Input is the input of Mount.
type Input struct {
	// PodDir is the pod's directory. It exists.
	PodDir string
	Pod    *v1.Pod
	// Container is the container to mount the file in.
	Container *v1.Container
	// PodIPs are the addresses of the pod's sandbox. They are ignored with the host network.
	PodIPs []string
	// Hostname and Domain come from criconfig.HostnameOf. They are ignored with the host network.
	Hostname, Domain string
}

// Mount updates the file and returns its mount. It returns nil if the container has its own mount there, or if the
// pod has no address.
func Mount(in Input) (*criconfig.Mount, error) {
	if len(in.PodIPs) == 0 && !in.Pod.Spec.HostNetwork || mountsOwn(in.Container) {
		return nil, nil
	}
	text, err := content(in, nodePath)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(in.PodDir, name)
	if err := update(file, text); err != nil {
		return nil, fmt.Errorf("write the pod's hosts file: %w", err)
	}
	return &criconfig.Mount{HostPath: file, ContainerPath: containerPath, SELinuxRelabel: true}, nil
}

func mountsOwn(c *v1.Container) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return path.Clean("/"+m.MountPath) == containerPath })
}

// content returns the text of the file; nodeFile is the path of the node's.
func content(in Input, nodeFile string) ([]byte, error) {
	if !in.Pod.Spec.HostNetwork {
		return append(ofPod(in), aliases(in.Pod)...), nil
	}
	node, err := readNodeFile(nodeFile)
	if err != nil {
		return nil, fmt.Errorf("read the node's hosts file: %w", err)
	}
	return slices.Concat([]byte("# Kubernetes-managed hosts file (host network).\n"), node, aliases(in.Pod)), nil
}

func readNodeFile(from string) ([]byte, error) {
	file, err := openfile.Open(from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return utilio.ReadAtMost(file, maxNodeFile)
}

// ofPod returns the file of a pod with its own network. The IPv6 addresses are those that the kubelet writes.
func ofPod(in Input) []byte {
	text := bytes.NewBufferString("# Kubernetes-managed hosts file.\n" +
		"127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\n" +
		"fe00::1\tip6-allnodes\n" +
		"fe00::2\tip6-allrouters\n")
	names := in.Hostname
	if in.Domain != "" {
		names = in.Hostname + "." + in.Domain + "\t" + in.Hostname
	}
	for _, ip := range in.PodIPs {
		fmt.Fprintf(text, "%s\t%s\n", ip, names)
	}
	return text.Bytes()
}

// aliases returns the pod's hostAliases, one per line, in their order.
func aliases(pod *v1.Pod) []byte {
	if len(pod.Spec.HostAliases) == 0 {
		return nil
	}
	text := bytes.NewBufferString("\n# Entries added by HostAliases.\n")
	for _, alias := range pod.Spec.HostAliases {
		fmt.Fprintf(text, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	return text.Bytes()
}
