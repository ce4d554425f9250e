package criconfig

import (
	"crypto/sha256"
	"encoding/hex"

	v1 "k8s.io/api/core/v1"
)

// hashBytes is how much of the SHA-256 a container hash has: enough to distinguish versions of one container.
const hashBytes = 8

// ContainerHash returns the hex hash by which a running container is compared with its spec. Like the kubelet's since
// 1.31 it covers only the name and the image, and it never changes between versions: either would restart every
// container at an upgrade of podexecd.
func ContainerHash(c *v1.Container) string {
	sum := sha256.Sum256([]byte(c.Name + "\n" + c.Image))
	return hex.EncodeToString(sum[:hashBytes])
}
