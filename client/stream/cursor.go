package stream

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// FormatCursor formats a cursor as INSTANCE/REVISION/VIEW, for stores and command lines. Slashes and special
// characters within a part are percent-encoded. A nil cursor is the empty text.
func FormatCursor(c *podconfigv1.Cursor) string {
	if c == nil {
		return ""
	}
	return url.PathEscape(c.GetInstanceId()) + "/" + strconv.FormatUint(c.GetRevision(), 10) + "/" + url.PathEscape(c.GetView())
}

// ParseCursor parses the output of FormatCursor. The empty text is nil. It returns an error for any other text, and
// for a cursor without an instance.
func ParseCursor(text string) (*podconfigv1.Cursor, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "" {
		return nil, fmt.Errorf("cursor %q: want INSTANCE/REVISION/VIEW", text)
	}
	instance, err := url.PathUnescape(parts[0])
	if err != nil {
		return nil, fmt.Errorf("cursor %q: instance: %w", text, err)
	}
	revision, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("cursor %q: revision: %w", text, err)
	}
	view, err := url.PathUnescape(parts[2])
	if err != nil {
		return nil, fmt.Errorf("cursor %q: view: %w", text, err)
	}
	return &podconfigv1.Cursor{InstanceId: instance, Revision: revision, View: view}, nil
}
