package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// uidBytes is how much of the hash a UID has: 128 bits, 32 hex digits as the kubelet's.
const uidBytes = 16

// uid is the UID of a pod whose author gave it none: the SHA-256 of
//
//	the document as encodeTree writes it              newline
//	"host:" and the node's name, for files only       newline
//	"file:" and the path, or "url:" and the URL       newline
//
// cut to 128 bits. It is taken from the document as written, before any default, so an equal manifest keeps its UID
// through every version of Podstream and of the Kubernetes API. The kubelet hashes its Go struct instead, and
// restarts every static pod when that changes (kubernetes#67537, #116080). Formatting, comments, the order of
// members, and whether it is YAML or JSON don't count.
func uid(text []byte, opts Options) types.UID {
	hash := sha256.New()
	hash.Write(text)
	switch opts.OriginKind {
	case URLKind:
		fmt.Fprintf(hash, "url:%s\n", opts.Origin)
	default:
		fmt.Fprintf(hash, "host:%s\nfile:%s\n", opts.Node, opts.Origin)
	}
	return types.UID(hex.EncodeToString(hash.Sum(nil)[:uidBytes]))
}
