package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// uidBytes is how much of the hash a UID has: 128 bits, 32 hex digits as the kubelet's.
const uidBytes = 16

// uid is the UID of a pod whose author gave it none: the SHA-256 of
//
//	the document as JSON, members sorted by name    newline
//	"host:" and the node's name, for files only      newline
//	"file:" and the path, or "url:" and the URL      newline
//
// cut to 128 bits. It is taken from the document as written, before any default, so an equal manifest keeps its UID through
// every version of Podstream and of the Kubernetes API. The kubelet hashes its Go struct instead, and restarts every static
// pod when that changes (kubernetes#67537, #116080). Formatting, comments, the order of members, and whether it is YAML or
// JSON don't count.
func uid(tree map[string]any, opts Options) (types.UID, error) {
	var b bytes.Buffer
	// encoding/json sorts the members of maps.
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return "", fmt.Errorf("hash the document: %w", err)
	}
	switch opts.OriginKind {
	case URLKind:
		fmt.Fprintf(&b, "url:%s\n", opts.Origin)
	default:
		fmt.Fprintf(&b, "host:%s\nfile:%s\n", opts.Node, opts.Origin)
	}
	sum := sha256.Sum256(b.Bytes())
	return types.UID(hex.EncodeToString(sum[:uidBytes])), nil
}
