package migration

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// counted is a codec that counts the entries of a list before it decodes them: an empty one is 2 bytes, and takes a hundred in memory.
type counted struct{ encoding.CodecV2 }

// Unmarshal is part of encoding.CodecV2.
func (c counted) Unmarshal(data mem.BufferSlice, v any) error {
	text := data.Materialize()
	for count := 0; len(text) > 0; count++ {
		if count == maxListed {
			return fmt.Errorf("it lists more than %d sandboxes or containers", maxListed)
		}
		_, _, n := protowire.ConsumeField(text)
		if n < 0 {
			return fmt.Errorf("decode a list: %w", protowire.ParseError(n))
		}
		text = text[n:]
	}
	return c.CodecV2.Unmarshal(data, v)
}
