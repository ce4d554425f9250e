package devnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	criclient "k8s.io/cri-client/pkg"
)

func connect(ctx context.Context, endpoint string) (internalapi.RuntimeService, error) {
	return criclient.NewRemoteRuntimeServiceBuilder().WithEndpoint(endpoint).WithConnectionTimeout(time.Minute).Build(ctx)
}

// pod is a pod that the test started over CRI.
type pod struct {
	sandbox, container, ip string
	// moreIPs are its addresses in addition to ip.
	moreIPs []string
}

// runPod starts a pod named name with one container that serves HTTP on port 8080.
func runPod(ctx context.Context, cri internalapi.RuntimeService, logs, name string, ports ...*runtimeapi.PortMapping) (pod, error) {
	sandboxConfig := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name},
		Hostname:     name,
		LogDirectory: logs,
		PortMappings: ports,
		Linux:        &runtimeapi.LinuxPodSandboxConfig{},
	}
	sandbox, err := cri.RunPodSandbox(ctx, sandboxConfig, "")
	if err != nil {
		return pod{}, err
	}
	status, err := cri.PodSandboxStatus(ctx, sandbox, false)
	if err != nil {
		return pod{}, err
	}
	container, err := cri.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
		Image:    &runtimeapi.ImageSpec{Image: SampleImage},
		Args:     []string{"serve", ":8080"},
		LogPath:  "main.log",
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
		}},
	}, sandboxConfig)
	if err != nil {
		return pod{}, err
	}
	if err := cri.StartContainer(ctx, container); err != nil {
		return pod{}, err
	}
	p := pod{sandbox: sandbox, container: container, ip: status.GetStatus().GetNetwork().GetIp()}
	for _, ip := range status.GetStatus().GetNetwork().GetAdditionalIps() {
		p.moreIPs = append(p.moreIPs, ip.GetIp())
	}
	return p, nil
}

// get requests the pod's address in its node's network until the pod answers.
func (p pod) get(ctx context.Context, node *Node) error {
	return get(ctx, node, net.JoinHostPort(p.ip, "8080"))
}

// get requests the server of runPod at an address in the node's network, until it answers.
func get(ctx context.Context, node *Node, address string) error {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = node.InNetwork(func() error {
			c, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return c, err
	}}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
		if err != nil {
			return err
		}
		response, err := transport.RoundTrip(request)
		if errors.Is(err, syscall.ECONNREFUSED) {
			continue // it doesn't listen yet
		}
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return err
		}
		if string(body) != "hello\n" {
			return fmt.Errorf("got %q", body)
		}
		return nil
	}
}

// linked reports whether the host has a link to the pod: an interface with the gateway's address.
func (p pod) linked() (bool, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false, err
	}
	ip := net.ParseIP(p.ip).To4()
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.Equal(net.IPv4(ip[0], ip[1], ip[2], 1)) {
			return true, nil
		}
	}
	return false, nil
}

// traces lists the objects that a node in dir has on the machine: processes, mounts, sockets of shims, cgroups, and
// interfaces.
func traces(t *testing.T, dir string, pods ...pod) []string {
	t.Helper()
	var found []string
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range processes {
		if line, err := os.ReadFile(path); err == nil && strings.Contains(string(line), dir) && !strings.Contains(path, strconv.Itoa(os.Getpid())) {
			found = append(found, "process: "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	mounts, err := mountsBeneath(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range mounts {
		found = append(found, "mount: "+path)
	}
	for _, pod := range pods {
		for _, id := range []string{pod.sandbox, pod.container} {
			cgroups, err := filepath.Glob("/sys/fs/cgroup/*/k8s.io/" + id)
			if err != nil {
				t.Fatal(err)
			}
			unified, err := filepath.Glob("/sys/fs/cgroup/k8s.io/" + id)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range slices.Concat(cgroups, unified) {
				found = append(found, "cgroup: "+path)
			}
		}
		// The kernel removes a network namespace some time after its last process has ended.
		deadline := time.Now().Add(time.Minute)
		linked, err := pod.linked()
		for ; linked && err == nil && time.Now().Before(deadline); linked, err = pod.linked() {
			runtime.Gosched()
		}
		if err != nil {
			t.Fatal(err)
		}
		if linked {
			found = append(found, "network of "+pod.ip)
		}
	}
	return found
}
