package lvm

import "fmt"

// What can be known to be wrong without asking LVM. Every error matches [ErrInvalid].
// [Client] checks the same before it runs a command.

// Validate checks name, size, layout and tags.
func (r CreateRequest) Validate() error { return validCreate(r) }

// Validate checks name, chunk size and tags; the size must be > 0.
func (r ThinPoolRequest) Validate() error {
	if r.SizeBytes <= 0 {
		return fmt.Errorf("%w: a size of %d bytes", ErrInvalid, r.SizeBytes)
	}
	return validThinPool(r)
}

// Validate checks that both names are such that LVM can have them.
func (r Ref) Validate() error { return validRef(r) }

// ValidateNew is Validate for a volume that is to get this name: LVM keeps some
// names to itself and adds to others.
func (r Ref) ValidateNew() error { return validNewRef(r) }

// ValidateTags checks the alphabet and length of tags, and that none is there twice.
func ValidateTags(tags []string) error { return validTags(tags) }
