package poolconfig

import (
	"crypto/sha256"
)

// Parse reads a pools file. Every problem is in the error, joined in the order
// of the file, each a *Problem that matches [ErrInvalid].
func Parse(data []byte) (Config, error) {
	return Config{digest: sha256.Sum256(data)}, &Problem{Message: "not read yet"}
}
