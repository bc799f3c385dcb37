use super::*;
impl RealPlane {
    pub(super) fn attach(&self, _v: &str, _i: &str, _d: &str) -> Result<(), PlaneError> {
        todo!()
    }
    pub(super) fn detach(&self, _v: &str, _i: &str) -> Result<(), PlaneError> {
        todo!()
    }
}
