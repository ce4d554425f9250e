package wire

import (
	"errors"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that Codec embeds
	"google.golang.org/grpc/mem"
)

// Frame is one message as bytes, in pieces. The bytes are immutable: many streams may send them at once.
type Frame mem.BufferSlice

// Codec is the protobuf codec, which sends a Frame as it is.
type Codec struct{ encoding.CodecV2 }

// NewCodec returns a Codec, for grpc.ForceServerCodecV2.
func NewCodec() Codec { return Codec{encoding.GetCodecV2("proto")} }

// Marshal is part of encoding.CodecV2. gRPC frees the buffers that it has sent, which does nothing for memory of the
// garbage collector: so a Frame may be sent again, and by many streams at once.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case Frame:
		return mem.BufferSlice(v), nil
	case *Frame:
		return nil, errors.New("send a wire.Frame, not a pointer to one")
	}
	return c.CodecV2.Marshal(v)
}
