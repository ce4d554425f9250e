package podctl

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// enumValue is a flag whose values are those of an enum, spelled as flags are.
type enumValue struct {
	enum        protoreflect.EnumDescriptor
	prefix      string
	unspecified string
	number      protoreflect.EnumNumber
	set         func(protoreflect.EnumNumber)
}

// enumFlag makes a flag of *value, whose present value is the default. prefix is the common prefix of the enum's
// names. unspecified is the word for the enum's zero value; if it is empty, the flag doesn't accept that value.
func enumFlag[E interface {
	~int32
	protoreflect.Enum
}](value *E, prefix, unspecified string) *enumValue {
	return &enumValue{
		enum: (*value).Descriptor(), prefix: prefix, unspecified: unspecified, number: (*value).Number(),
		set: func(n protoreflect.EnumNumber) { *value = E(n) },
	}
}

// String implements pflag.Value.
func (v *enumValue) String() string {
	if v.enum == nil {
		return "" // pflag calls String on a zero value
	}
	if d := v.enum.Values().ByNumber(v.number); d != nil {
		return v.spelling(d)
	}
	return ""
}

// Type implements pflag.Value.
func (v *enumValue) Type() string { return "word" }

// Set implements pflag.Value.
func (v *enumValue) Set(s string) error {
	var words []string
	for i := range v.enum.Values().Len() {
		d := v.enum.Values().Get(i)
		word := v.spelling(d)
		if word == "" {
			continue
		}
		if word == s {
			v.number = d.Number()
			v.set(d.Number())
			return nil
		}
		words = append(words, word)
	}
	last := len(words) - 1
	return errors.New("want " + strings.Join(words[:last], ", ") + " or " + words[last])
}

// spelling returns the word for a value; empty if the flag doesn't accept it.
func (v *enumValue) spelling(d protoreflect.EnumValueDescriptor) string {
	if d.Number() == 0 {
		return v.unspecified
	}
	word := strings.TrimPrefix(string(d.Name()), v.prefix)
	return strings.ToLower(strings.ReplaceAll(word, "_", "-"))
}

// addModeFlag adds --mode, which watch and record have. The present value of mode is the default.
func addModeFlag(flags *pflag.FlagSet, mode *podconfigv1.NotificationMode) {
	flags.Var(enumFlag(mode, "NOTIFICATION_MODE_", ""), "mode",
		"the `mode` in which changes come: incremental, snapshot-and-updates or snapshot")
}

// resolveFormat replaces the unspecified format by the one that suits the output: protobuf, which is the smallest,
// for tables with a few fields, and JSON for documents.
func resolveFormat(f podconfigv1.PodFormat, o render.Format) podconfigv1.PodFormat {
	switch {
	case f != podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED:
		return f
	case o.IsTable():
		return podconfigv1.PodFormat_POD_FORMAT_PROTOBUF
	}
	return podconfigv1.PodFormat_POD_FORMAT_JSON
}
