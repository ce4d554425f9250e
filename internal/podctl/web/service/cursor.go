package service

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
)

// epoch distinguishes the cursors of this process from those of an earlier podctl web.
var epoch = rand.Text()

// place makes the cursors of one topic. A cursor of another topic or another process is none.
type place struct{ prefix string }

func placeOf(topic *podwebv1.Topic) place {
	encoded, _ := proto.MarshalOptions{Deterministic: true}.Marshal(topic) // A topic without invalid text never fails.
	hash := sha256.Sum256(encoded)
	const enough = 6
	return place{epoch + "." + hex.EncodeToString(hash[:enough]) + "."}
}

// format returns the cursor of some positions.
func (p place) format(positions ...uint64) string {
	parts := make([]string, len(positions))
	for i, n := range positions {
		parts[i] = strconv.FormatUint(n, 10)
	}
	return p.prefix + strings.Join(parts, "-")
}

// parse returns the n positions of a cursor, and reports whether it is one.
func (p place) parse(cursor string, n int) (positions []uint64, ok bool) {
	rest, ok := strings.CutPrefix(cursor, p.prefix)
	if !ok {
		return nil, false
	}
	parts := strings.Split(rest, "-")
	if len(parts) != n {
		return nil, false
	}
	for _, part := range parts {
		position, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return nil, false
		}
		positions = append(positions, position)
	}
	return positions, true
}
