package simruntime

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// newID returns an ID in containerd's form: 32 random bytes in hex.
func newID() string {
	id := make([]byte, 32)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// sandboxName and containerName return names in containerd's form, which are unique if the metadata is. A container's
// name contains its pod's name but not its sandbox's attempt. So the containers of a pod's successive sandboxes share
// one namespace.
func sandboxName(m *runtimeapi.PodSandboxMetadata) string {
	return strings.Join([]string{m.GetName(), m.GetNamespace(), m.GetUid(), attempt(m.GetAttempt())}, "_")
}

func containerName(m *runtimeapi.ContainerMetadata, pod *runtimeapi.PodSandboxMetadata) string {
	return strings.Join([]string{m.GetName(), pod.GetName(), pod.GetNamespace(), pod.GetUid(), attempt(m.GetAttempt())}, "_")
}

func attempt(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// names maps each name in use to its object's ID, from creation to removal.
type names map[string]string

func (n names) reserve(name, id string) error {
	if owner, taken := n[name]; taken {
		return fmt.Errorf("name %q is reserved for %q", name, owner)
	}
	n[name] = id
	return nil
}

// podNetwork is the network of the pods' addresses. The first address is the bridge's.
var podNetwork = netip.MustParsePrefix("10.88.0.0/16")

// addresses allocates the addresses of podNetwork in order. It starts again at the end, so that a freed address isn't
// reused at once.
type addresses struct {
	last netip.Addr
	used map[netip.Addr]bool
}

func newAddresses() addresses {
	return addresses{last: podNetwork.Addr().Next(), used: make(map[netip.Addr]bool)}
}

func (a *addresses) take() (netip.Addr, error) {
	first := podNetwork.Addr().Next().Next()
	for range 1<<(32-podNetwork.Bits()) - 3 { // less the network, the bridge, and the broadcast address
		a.last = a.last.Next()
		if !podNetwork.Contains(a.last.Next()) {
			a.last = first
		}
		if !a.used[a.last] {
			a.used[a.last] = true
			return a.last, nil
		}
	}
	return netip.Addr{}, errors.New("no IP addresses available in network " + podNetwork.String())
}

func (a *addresses) free(addr netip.Addr) { delete(a.used, addr) }
