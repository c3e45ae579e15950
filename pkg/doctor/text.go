package doctor

import "strings"

// errorText is a message that is an error elsewhere.
type errorText string

// Error is the message.
func (e errorText) Error() string { return string(e) }

// oneLine is the error's text without line breaks.
func oneLine(err error) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", "; ")), " ")
}
