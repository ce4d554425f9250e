package hostiledaemon

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// maxDepth is how deeply messages are filled.
const maxDepth = 8

// filler fills messages.
type filler struct {
	// name is the name of each pod. Empty: it is hostile too.
	name string
	// method is the name of the method that is called.
	method string
	// format is the format of pods and statuses.
	format podconfigv1.PodFormat
	// event is the number of the alternative that is set in a stream's message.
	event int
	// contents gathers the texts of pods and statuses.
	contents *group
}

// group counts messages with content. One in 25 gets it, with the texts of all of them: a pod has hundreds of fields.
type group struct{ texts []string }

// add adds a message's texts, and returns those of the group if the message gets the content.
func (g *group) add(texts []string) []string {
	const size = 25
	g.texts = append(g.texts, texts...)
	if len(g.texts) < size {
		return nil
	}
	whole := g.texts
	g.texts = nil
	return whole
}

// fill sets each field of a message: a single text to all strings, and a list to an element for each.
func (f filler) fill(m protoreflect.Message, texts []string, depth int) {
	if f.wellKnown(m.Interface()) || depth > maxDepth {
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case f.skips(m, field, depth):
		case isContent(field):
			if whole := f.contents.add(texts); whole != nil {
				m.Set(field, f.content(field, whole))
			}
		case field.IsMap():
			f.fillMap(m, field, texts, depth)
		case field.IsList():
			list := m.Mutable(field).List()
			for _, text := range texts {
				list.Append(f.value(field, list.NewElement, []string{text}, depth))
			}
		default:
			m.Set(field, f.value(field, func() protoreflect.Value { return m.NewField(field) }, texts, depth))
		}
	}
}

// skips reports whether a field stays unset: one that announces more, and the alternatives of a oneof that aren't chosen.
func (f filler) skips(m protoreflect.Message, field protoreflect.FieldDescriptor, depth int) bool {
	if field.Name() == "next_page_token" || field.Name() == "continued" {
		return true
	}
	choice := field.ContainingOneof()
	switch {
	case choice == nil || choice.IsSynthetic():
		return false
	case isContent(field):
		want := protoreflect.Name("json")
		if f.format == podconfigv1.PodFormat_POD_FORMAT_PROTOBUF {
			want = "protobuf"
		}
		return field.Name() != want || f.format == podconfigv1.PodFormat_POD_FORMAT_REFERENCE
	case depth == 0:
		return choice.Fields().Get(f.event%choice.Fields().Len()) != field
	}
	return m.WhichOneof(choice) != nil
}

func (f filler) fillMap(m protoreflect.Message, field protoreflect.FieldDescriptor, texts []string, depth int) {
	entries := m.Mutable(field).Map()
	for _, text := range texts {
		key := f.value(field.MapKey(), nil, []string{text}, depth).MapKey()
		entries.Set(key, f.value(field.MapValue(), entries.NewValue, []string{text}, depth))
	}
}

// value returns the value of a field, or of an element of it.
func (f filler) value(field protoreflect.FieldDescriptor, empty func() protoreflect.Value, texts []string, depth int) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		if f.name != "" && field.Parent().FullName() == "podconfig.v1.PodRef" && field.Name() == "name" {
			return protoreflect.ValueOfString(f.name)
		}
		return protoreflect.ValueOfString(valid(strings.Join(texts, " ")))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(strings.Join(texts, " ")))
	case protoreflect.MessageKind, protoreflect.GroupKind:
		v := empty()
		f.fill(v.Message(), texts, depth+1)
		return v
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(3)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(3)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(3)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(3)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(1.5)
	default:
		return protoreflect.ValueOfFloat64(1.5)
	}
}

// wellKnown fills a time or a duration.
func (f filler) wellKnown(m proto.Message) bool {
	switch m := m.(type) {
	case *timestamppb.Timestamp:
		m.Seconds = noon.Seconds
	case *durationpb.Duration:
		m.Seconds = 5
	default:
		return false
	}
	return true
}

// valid returns a text that protobuf takes: the rest of one that isn't UTF-8.
func valid(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
