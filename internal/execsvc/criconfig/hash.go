package criconfig

import (
	"crypto/sha256"
	"encoding/hex"

	v1 "k8s.io/api/core/v1"
)

// hashBytes is how much of the SHA-256 a container hash keeps: it tells versions of one container apart, no more.
const hashBytes = 8

// ContainerHash tells, in hex, whether a running container is still the one that its pod asks for. Like the kubelet since 1.31
// it covers the name and the image only, and it never changes between versions: either would restart every container at an
// upgrade of podexecd.
func ContainerHash(c *v1.Container) string {
	sum := sha256.Sum256([]byte(c.Name + "\n" + c.Image))
	return hex.EncodeToString(sum[:hashBytes])
}
