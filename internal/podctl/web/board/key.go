package board

import (
	"crypto/sha256"
	"encoding/base64"
)

// Key returns the key of a row: a hash of what identifies it. Unlike a UID, which a manifest may choose, it has no characters
// that a page or a log would have to escape.
func Key(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		hash.Write([]byte(part))
		hash.Write([]byte{0})
	}
	const enough = 15 // bytes: 120 bits
	return base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:enough])
}
