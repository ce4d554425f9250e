package criconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"
)

// formerHashBytes is how much of the SHA-256 a former container hash has.
const formerHashBytes = 8

// ContainerHash returns the hash that is recorded with a new container: that of the kubelet since 1.31, of the name and the
// image. A kubelet that replaces podexecd restarts containers with another hash, and podexecd those of a kubelet.
func ContainerHash(c *v1.Container) string {
	// A map of strings can always be encoded.
	picked, _ := json.Marshal(map[string]string{"name": c.Name, "image": c.Image})
	sum := fnv.New32a()
	// The kubelet hashes a printed form of the encoded bytes. A hash.Hash returns no error.
	_, _ = fmt.Fprint(sum, dump.ForHash(picked))
	return strconv.FormatUint(uint64(sum.Sum32()), 16)
}

// SameContainer reports whether a container with this recorded hash was created from c's name and image. It accepts the
// hash of earlier versions of podexecd too: their containers continue after an upgrade.
func SameContainer(c *v1.Container, recorded string) bool {
	return recorded == ContainerHash(c) || recorded == formerHash(c)
}

// formerHash returns the hash that podexecd recorded before it recorded the kubelet's.
func formerHash(c *v1.Container) string {
	sum := sha256.Sum256([]byte(c.Name + "\n" + c.Image))
	return hex.EncodeToString(sum[:formerHashBytes])
}
