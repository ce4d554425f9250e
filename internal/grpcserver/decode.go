package grpcserver

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that requests are decoded with
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxRequestValues is the maximum number of fields of a request, including those of nested messages. An empty message
// takes two bytes on the wire and a hundred times as much when it is decoded.
const maxRequestValues = 1 << 18

// boundedCodec doesn't decode requests that have too many values.
type boundedCodec struct{ encoding.CodecV2 }

func newBoundedCodec(c encoding.CodecV2) boundedCodec {
	if c == nil {
		c = encoding.GetCodecV2("proto")
	}
	return boundedCodec{c}
}

// Unmarshal is part of encoding.CodecV2. It leaves a request with too many values empty, apart from a mark that
// checkDecoded finds: gRPC turns each error of a codec into INTERNAL.
func (c boundedCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok || data.Len() <= maxRequestValues {
		return c.CodecV2.Unmarshal(data, v)
	}
	bytes := data.Materialize()
	left := maxRequestValues
	countValues(bytes, m.ProtoReflect().Descriptor(), &left)
	if left < 0 {
		proto.Reset(m)
		m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, tooManyValues, protowire.VarintType), 1))
		return nil
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{mem.SliceBuffer(bytes)}, v)
}

// tooManyValues is the field that marks a request that wasn't decoded.
const tooManyValues protowire.Number = protowire.MaxValidNumber

// countValues subtracts the fields of a message, including those of nested messages, from left, until left is
// negative. It stops at broken encoding, as the decoder does.
func countValues(data []byte, d protoreflect.MessageDescriptor, left *int) {
	for len(data) > 0 && *left >= 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return
		}
		value := data[n:]
		size := protowire.ConsumeFieldValue(number, kind, value)
		if size < 0 {
			return
		}
		*left--
		if field := d.Fields().ByNumber(number); kind == protowire.BytesType && field != nil && field.Message() != nil {
			inner, _ := protowire.ConsumeBytes(value)
			countValues(inner, field.Message(), left)
		}
		data = value[size:]
	}
}

// checkDecoded returns the error for a request that wasn't decoded.
func checkDecoded(req any) error {
	m, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	if number, _, n := protowire.ConsumeTag(m.ProtoReflect().GetUnknown()); n > 0 && number == tooManyValues {
		return status.Errorf(codes.ResourceExhausted, "the request has more than %d values", maxRequestValues)
	}
	return nil
}
