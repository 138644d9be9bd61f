package zonefile

// WithSerial returns a valid text with a different serial.
func WithSerial(text string, serial uint32) string {
	z, err := scan([]byte(text))
	if err != nil {
		return err.Error()
	}
	return string(z.text(serial))
}

// Same is same.
var Same = sameFile
