package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Proto is a message in a document: protobuf's JSON, with zero values written out, so that a reader sees `"ready":
// false` rather than nothing, and with 64-bit numbers as numbers, where protobuf writes strings: they count revisions
// and pods, and jq compares them.
type Proto struct{ proto.Message }

// MarshalJSON implements json.Marshaler.
func (v Proto) MarshalJSON() ([]byte, error) {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(v.Message)
	if err != nil {
		return nil, err
	}
	n := &numberer{in: json.NewDecoder(bytes.NewReader(text))}
	n.in.UseNumber()
	if err := n.message(v.ProtoReflect().Descriptor()); err != nil {
		return nil, fmt.Errorf("encode for output: %w", err)
	}
	return n.out.Bytes(), nil
}

// numberer copies protobuf's JSON in its order, and turns the strings of 64-bit fields into numbers.
type numberer struct {
	in  *json.Decoder
	out bytes.Buffer
}

// message copies a message's object.
func (n *numberer) message(of protoreflect.MessageDescriptor) error {
	open, err := n.in.Token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') {
		return errors.New("a message isn't an object")
	}
	return n.object(func(key string) protoreflect.FieldDescriptor { return of.Fields().ByJSONName(key) })
}

// value copies a value of the field. A nil field has no 64-bit numbers.
func (n *numberer) value(field protoreflect.FieldDescriptor) error {
	token, err := n.in.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			return n.array(field)
		}
		return n.object(fieldsOf(field))
	case string:
		if is64Bit(field) {
			n.out.WriteString(token)
			return nil
		}
		return n.scalar(token)
	default:
		return n.scalar(token)
	}
}

// object copies the rest of an object after its brace.
func (n *numberer) object(fieldOf func(key string) protoreflect.FieldDescriptor) error {
	n.out.WriteByte('{')
	for first := true; n.in.More(); first = false {
		key, err := n.in.Token()
		if err != nil {
			return err
		}
		name, ok := key.(string)
		if !ok {
			return errors.New("a key isn't a string")
		}
		if !first {
			n.out.WriteByte(',')
		}
		if err := n.scalar(name); err != nil {
			return err
		}
		n.out.WriteByte(':')
		if err := n.value(fieldOf(name)); err != nil {
			return err
		}
	}
	return n.close('}')
}

func (n *numberer) array(field protoreflect.FieldDescriptor) error {
	n.out.WriteByte('[')
	for first := true; n.in.More(); first = false {
		if !first {
			n.out.WriteByte(',')
		}
		if err := n.value(field); err != nil {
			return err
		}
	}
	return n.close(']')
}

func (n *numberer) close(with byte) error {
	if _, err := n.in.Token(); err != nil {
		return err
	}
	n.out.WriteByte(with)
	return nil
}

func (n *numberer) scalar(v any) error {
	text, err := JSON(v)
	n.out.WriteString(strings.TrimSuffix(text, "\n"))
	return err
}

// fieldsOf returns the fields of an object in a field. The well-known types have their own JSON.
func fieldsOf(field protoreflect.FieldDescriptor) func(key string) protoreflect.FieldDescriptor {
	switch {
	case field == nil || field.Message() == nil || field.Message().ParentFile().Package() == "google.protobuf":
		return func(string) protoreflect.FieldDescriptor { return nil }
	case field.IsMap():
		return func(string) protoreflect.FieldDescriptor { return field.MapValue() }
	}
	return func(key string) protoreflect.FieldDescriptor { return field.Message().Fields().ByJSONName(key) }
}

func is64Bit(field protoreflect.FieldDescriptor) bool {
	if field == nil {
		return false
	}
	switch field.Kind() {
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return true
	default:
		return false
	}
}
