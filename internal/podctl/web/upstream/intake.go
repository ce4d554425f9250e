package upstream

import (
	"errors"

	"google.golang.org/protobuf/proto"
)

// maxIntake is the default of Config.MaxBytes.
const maxIntake = 256 << 20

// errTooMuch: what a daemon sends has no end, or isn't a daemon's.
var errTooMuch = errors.New("it sends more pods than podctl web keeps: check what listens there")

// intake counts the messages that are kept until they are complete.
type intake struct{ most, bytes int }

// add counts a message.
func (i *intake) add(m proto.Message) error {
	// What it takes beside its encoding.
	const fixed = 256
	if i.bytes += proto.Size(m) + fixed; i.bytes > i.most {
		return errTooMuch
	}
	return nil
}
