package relay

import (
	"bytes"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxQuantity is the longest text that is accepted as a quantity, and maxExponent the most digits of its
	// exponent. Those of Kubernetes end at 10^18 and 10^-9; to parse "1e-9999999" takes minutes of a processor.
	maxQuantity = 64
	maxExponent = 3
)

var errQuantity = errors.New("has an invalid quantity")

// errEncoding: the encoding isn't valid protobuf. The decoder of pods accepts some of these nevertheless, and would
// find quantities in them where checkQuantities doesn't.
var errEncoding = errors.New("can't be decoded: it isn't protobuf")

// checkQuantities looks for quantities that must not be parsed in an encoded pod.
func checkQuantities(data []byte) error { return podShape().check(data) }

// shape is where an encoded type has quantities. Nil: it has none.
type shape struct {
	quantity bool
	fields   map[protowire.Number]*shape
}

// The shapes of types are made from their protobuf tags.
var (
	podShape    = shapeFor[v1.Pod]()
	claimShape  = shapeFor[v1.PersistentVolumeClaim]()
	volumeShape = shapeFor[v1.PersistentVolume]()
)

func shapeFor[T any]() func() *shape {
	return sync.OnceValue(func() *shape { return shapeOf(reflect.TypeFor[T](), map[reflect.Type]*shape{}) })
}

func shapeOf(t reflect.Type, known map[reflect.Type]*shape) *shape {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if s, ok := known[t]; ok {
		return s
	}
	known[t] = nil
	s := &shape{fields: map[protowire.Number]*shape{}}
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		s.quantity = true
	case t.Kind() == reflect.Map:
		// An entry of a map is a message of key and value.
		s.add(2, shapeOf(t.Elem(), known))
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			if number := fieldNumber(t.Field(i)); number > 0 {
				s.add(number, shapeOf(t.Field(i).Type, known))
			}
		}
	}
	if s.quantity || len(s.fields) > 0 {
		known[t] = s
	}
	return known[t]
}

func (s *shape) add(number protowire.Number, field *shape) {
	if field != nil {
		s.fields[number] = field
	}
}

// fieldNumber returns the second word of a tag like `protobuf:"bytes,2,opt,name=spec"`; zero if there is none.
func fieldNumber(f reflect.StructField) protowire.Number {
	words := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(words) < 2 {
		return 0
	}
	number, err := strconv.ParseInt(words[1], 10, 32)
	if err != nil {
		return 0
	}
	return protowire.Number(number)
}

// check returns errQuantity for a message with a quantity that must not be parsed, and errEncoding for one that isn't
// protobuf.
func (s *shape) check(data []byte) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errEncoding
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return errEncoding
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(data)
			if s.quantity && number == 1 && isHugeNumber(value) {
				return errQuantity
			}
			if field := s.fields[number]; field != nil {
				if err := field.check(value); err != nil {
					return err
				}
			}
		}
		data = data[n:]
	}
	return nil
}

// isHugeNumber reports whether a quantity is too long, or has a large exponent.
func isHugeNumber(text []byte) bool {
	if len(text) > maxQuantity {
		return true
	}
	e := bytes.IndexAny(text, "eE")
	return e >= 0 && len(bytes.TrimLeft(text[e+1:], "+-0")) > maxExponent
}
