use super::*;
impl RealPlane {
    pub(super) fn create_volume(
        &self,
        _v: &str,
        _g: u32,
        _s: Option<&str>,
    ) -> Result<(), PlaneError> {
        todo!()
    }
    pub(super) fn create_snapshot(&self, _s: &str, _v: &str) -> Result<(), PlaneError> {
        todo!()
    }
    pub(super) fn delete_copy(&self, _n: &str) -> Result<(), PlaneError> {
        todo!()
    }
}
